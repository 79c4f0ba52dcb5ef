from goalport.runtime.ai import *
from goalport.runtime.autonomy import *
from goalport.runtime.platform import *
from goalport.runtime.process import *
