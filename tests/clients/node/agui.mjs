// AG-UI's own client: it does the runs that it is told on stdin, a line of JSON each, and tells what it made of each.
import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { HttpAgent } from "@ag-ui/client";

const agents = new Map();

async function run({ url, threadId, say, result: made, ...parameters }) {
  if (!agents.has(threadId)) agents.set(threadId, new HttpAgent({ url, threadId }));
  const agent = agents.get(threadId);
  if (say) agent.addMessage({ id: randomUUID(), role: "user", content: say });
  if (made) agent.addMessage({ id: randomUUID(), role: "tool", ...made });
  const events = [];
  const told = { onEvent: ({ event }) => void events.push(event) };
  try {
    const { result } = await agent.runAgent(parameters, told);
    return { events, result, messages: agent.messages, state: agent.state, interrupts: agent.pendingInterrupts };
  } catch (error) {
    return { events, error: error.message };
  }
}

for await (const line of createInterface({ input: process.stdin })) console.log(JSON.stringify(await run(JSON.parse(line))));
