"""Lets a server find the vector stores, behind the packages of goalport's own environment."""

import os
import site

site.addsitedir(os.environ["VECTOR_STORES"])
