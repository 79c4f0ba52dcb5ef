from goalport.agents.blackboard import *
from goalport.agents.domain import *
from goalport.agents.plan import *
