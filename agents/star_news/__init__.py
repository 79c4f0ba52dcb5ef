"""The agent that finds news for people who believe in the stars: `find_star_news` over MCP. See docs/star-news.md.

`agent` has the steps, `people` and `news` what goes in, between and out, `horoscopes` the service that needs no model,
`prompts/` what the model is asked.
"""

from .agent import StarNewsFinder
from .horoscopes import Almanac

star_news = StarNewsFinder(Almanac())
