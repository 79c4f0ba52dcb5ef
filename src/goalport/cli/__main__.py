"""`python -m goalport.cli`: the same program as `goalport`, for when the script `goalport` is not on the PATH."""

from goalport.cli import main

main()
