"""`python -m goalport`: the same program as `goalport`, for when the script `goalport` is not on the PATH."""

from goalport.cli import main

if __name__ == "__main__":
    main()
