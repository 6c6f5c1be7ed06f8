"""Real failing jobs on purpose: small training runs with one known fault each, diagnosed and judged.

Belongs here: the faults (one file each, with its truth), the job they break, running it within a
deadline, judging the diagnosis. Must not be here: what a failure looks like. The lab knows the truth
because it made it, and compares; the engine must find it by the evidence alone.

Nothing here imports torch: the jobs are processes of their own.
"""
