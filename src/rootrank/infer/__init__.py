"""What explains what: entries against the timeline, one ordered answer. `diagnose` is the file to read first.

Must not be here: failures by name, formats of logs, words of reports.
"""

from rootrank.infer.diagnose import infer

__all__ = ["infer"]
