from goalport.models.llm import *
from goalport.models.prompts import *
