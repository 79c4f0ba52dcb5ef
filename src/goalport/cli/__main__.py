"""`python -m goalport.cli`: the same program as `goalport`, for when its script is not on the path."""

from goalport.cli import main

main()
