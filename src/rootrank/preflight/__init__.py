"""What will fail or hang, said before the launch: configuration files, commands and this machine.

Belongs here: one module per family of checks, each with `check(job)`; rules of libraries with their
source. Must not be here: anything about a job that has run (that is `diagnose`), and any import of
a training library. Read run.py first.

    finding.py   what a check says          readers.py  files as values with line numbers
    shell.py     launch scripts as commands job.py      what the files say together
    host.py      facts of this machine      run.py      all checks over all files
    keys batch zero memory frameworks parallel launch env machine versions    the checks
    repro.py     the user's command on one and two processes    report.py   words
"""
