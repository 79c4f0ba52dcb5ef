"""Chatbots and their conversations: agents that people talk to, turn by turn. User guide, section 3.12.11 and on.

A message is an object on the blackboard of a process that rests between turns; the conversation is stored by itself.
Below: processes and the store. Above: the platform, and the doors through which people talk.
"""

from goalport.chat.chatbots import AgentProcessChatbot, Chatbots, open_chatbot
from goalport.chat.cheapest import cheapest
from goalport.chat.conversation import Conversation
from goalport.chat.conversations import Conversations
from goalport.chat.front_end import FrontEnd, FrontEndCall, OfferedTool
from goalport.chat.history import HistoryMatch, compare
from goalport.chat.messages import Asset, ConversationMessage
from goalport.chat.session import Chatbot, ChatSession
from goalport.chat.turn import Turn, TurnResult
from goalport.chat.turn_hooks import ConversationTurns, conversation_of
from goalport.domain import ChatbotMark, chatbot

__all__ = [
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
