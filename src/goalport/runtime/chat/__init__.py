"""Chatbots and their conversations: agents that people talk to, turn by turn. User guide, section 3.12.11 and on.

A message is an object on the blackboard of a process that rests between turns; the conversation is stored by itself.
Below: processes and the store. Above: the platform, and the doors through which people talk.
"""

from goalport.agents.domain import ChatbotMark, chatbot
from goalport.runtime.chat.compaction import cheapest
from goalport.runtime.chat.conversation import Asset, Conversation, ConversationMessage, HistoryMatch, compare
from goalport.runtime.chat.conversations import Conversations
from goalport.runtime.chat.front_end import A2aMessage, FrontEnd, FrontEndCall, OfferedTool
from goalport.runtime.chat.session import (
    AgentProcessChatbot,
    Chatbot,
    Chatbots,
    ChatSession,
    Turn,
    TurnResult,
    open_chatbot,
)
from goalport.runtime.chat.turn_hooks import ConversationTurns, conversation_of

__all__ = [
    "A2aMessage",
    "AgentProcessChatbot",
    "Asset",
    "ChatSession",
    "Chatbot",
    "ChatbotMark",
    "Chatbots",
    "Conversation",
    "ConversationMessage",
    "ConversationTurns",
    "Conversations",
    "FrontEnd",
    "FrontEndCall",
    "HistoryMatch",
    "OfferedTool",
    "Turn",
    "TurnResult",
    "chatbot",
    "cheapest",
    "compare",
    "conversation_of",
    "open_chatbot",
]
