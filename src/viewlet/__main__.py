"""`python -m viewlet` is the same as the command `viewlet`."""

from viewlet.cli import main

if __name__ == "__main__":
    main()
