// The client of the JS SDK of A2A. It says what it is told on stdin, a line of JSON each, and tells what came of it: the
// task, its last state, and the texts. Its parameter is the address below which the agent card is.
import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { ClientFactory } from "@a2a-js/sdk/client";

const client = await new ClientFactory().createFromUrl(process.argv[2]);
const textsOf = (parts) => (parts ?? []).filter((each) => each.content.$case === "text").map((each) => each.content.value);

async function said({ text, taskId = "", contextId = "" }) {
  const parts = [{ content: { $case: "text", value: text }, filename: "", mediaType: "" }];
  const about = { messageId: randomUUID(), role: 1, taskId, contextId, extensions: [], referenceTaskIds: [] };
  const told = { taskId, contextId, state: 0, texts: [], results: [] };
  for await (const { payload } of client.sendMessageStream({ message: { ...about, parts }, tenant: "" })) {
    const { id, taskId: task, contextId: context, status, artifact } = payload.value;
    Object.assign(told, { taskId: id || task, contextId: context });
    if (status) Object.assign(told, { state: status.state, texts: textsOf(status.message?.parts) });
    if (artifact) told.results.push(...textsOf(artifact.parts));
  }
  return told;
}

async function looked({ taskId }) {
  const { status, history } = await client.getTask({ tenant: "", id: taskId });
  return { state: status.state, messages: history.length };
}

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  process.stdout.write(`${JSON.stringify(await (asked.text ? said : looked)(asked))}\n`);
}
