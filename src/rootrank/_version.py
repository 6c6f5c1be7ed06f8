"""The version, as a constant: reading installed metadata would cost more than `--help` may take."""

__version__ = "0.1.0"
