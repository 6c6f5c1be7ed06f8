# just --list shows these. Each is one plain command, for those who do without just.

# make a virtual environment and install for development
setup:
    python3 -m venv .venv
    .venv/bin/python -m pip install -e '.[dev,all]'

# run the tests
test *args:
    python -m pytest -q {{args}}

# check style and types
lint:
    ruff check
    ruff format --check
    mypy --strict src

# bring style up to date
format:
    ruff check --fix
    ruff format

# rewrite what is generated in the documentation; `just docs --check` only looks
docs *args:
    python tools/docs.py {{args}}

# check every entry and diagnose every example
kb *args:
    rootrank kb check {{args}}

# make the benchmark's corpora in bench/data and time a diagnosis of each
bench mb="1000":
    python bench/corpora.py bench/data --mb {{mb}}
    for f in bench/data/*; do echo "$f"; time rootrank diagnose "$f" --format json -o /dev/null || true; done

# all that a change has to pass
ci:
    bash .ci/run
