"""One file per fault: `FAULT` says what is true, its functions make it happen.

Functions named in `rootrank.lab.fault.LAB_SIDE` run in the lab's process; all others are copied into
the job's folder, where the training script calls them as hooks (docs/lab.md lists them).
"""
