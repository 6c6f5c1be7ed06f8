"""Tests of rootrank.live: real processes of ours, and fakes of the programs it calls."""
