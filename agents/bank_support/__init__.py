"""The agent that helps customers of a bank: `support_customer` over MCP. See docs/bank-support.md.

`agent` has the steps and decides what is done, `customer` is the domain object whose tools a model may call,
`customers` finds customers (offline, in `customers.toml`), `advice` is what goes in and comes out.
"""

from .agent import BankSupport
from .customers import CustomersOfFile

bank_support = BankSupport(CustomersOfFile.read())
