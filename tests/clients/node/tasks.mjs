// What every TypeScript client can be told to do, whichever SDK it is made of.
import { createInterface } from "node:readline";
import { converse } from "./conversation.mjs";

const tell = (value) => console.log(JSON.stringify(value));

// Calls the tools that it is told on stdin, a line each, and tells each result on stdout.
async function obey(client, call) {
  await client.listTools(); // with their schemas, against which both SDKs hold the results
  for await (const line of createInterface({ input: process.stdin })) {
    tell(await call(JSON.parse(line)));
  }
}

const tasks = { converse: async (client, call) => tell(await converse(client, call)), obey };

// arguments: [task, transport, era, address-or-command, ...arguments of the command]
export async function main(connected, call) {
  const [task, transport, era, ...target] = process.argv.slice(2);
  const client = await connected(transport, era, target);
  await tasks[task](client, (request, onprogress) => call(client, request, onprogress));
  await client.close();
}
