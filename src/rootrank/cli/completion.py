"""Print the completion script of a shell.

Completes commands, options, and the names of entries and demos.
"""

from __future__ import annotations

import argparse

from rootrank.cli import shared

EXAMPLES = """\
examples:
  rootrank completion bash >> ~/.bashrc
  rootrank completion zsh  >> ~/.zshrc
  rootrank completion fish > ~/.config/fish/completions/rootrank.fish
"""

# argcomplete rather than shtab: it asks the program itself at each Tab, so the ids of entries are
# always those of the installed version, and a new command needs no second description. The price,
# a start of the program per Tab, is a tenth of a second here.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rootrank completion`."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the script. Returns 0."""
    try:
        import argcomplete
    except ImportError as error:
        from rootrank.errors import MissingExtraError

        remedy = "pip install argcomplete"
        raise MissingExtraError("completion", "argcomplete is not installed", remedy) from error
    shared.emit(argcomplete.shellcode(["rootrank"], shell=args.shell) + "\n")
    return 0
