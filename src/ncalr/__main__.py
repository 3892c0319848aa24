"""`python -m ncalr`: the command line, by the interpreter at hand."""

from ncalr.cli import main

if __name__ == "__main__":
    main()
