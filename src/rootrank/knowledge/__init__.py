"""The encyclopedia: types, loading, checking, rendering. Entries are data under entries/."""
