from goalport.server.site import *
