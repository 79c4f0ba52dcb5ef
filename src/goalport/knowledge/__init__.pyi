from goalport.knowledge.documents import *
from goalport.knowledge.rag import *
from goalport.knowledge.references import *
from goalport.knowledge.skills import *
