// What every TypeScript client can be told to do, whichever SDK it is made of.
import { createInterface } from "node:readline";
import { converse } from "./conversation.mjs";

const tell = (value) => console.log(JSON.stringify(value));
const person = { answers: [], asked: [] };
const habits = {
  open: () => ({ action: "accept" }),
  decline: () => ({ action: "decline" }),
  cancel: () => ({ action: "cancel" }),
  raise: () => Promise.reject(new Error("The form cannot be shown.")),
  garble: () => ({ sing: true }),
  ignore: () => new Promise(() => {}),
  leave: () => process.exit(0),
};

// Does with each form what the line says: a word of the habits, or the fields of an answer.
function answer({ params }) {
  person.asked.push(params);
  const next = person.answers.shift();
  return habits[next]?.() ?? { action: "accept", content: next };
}

// Calls the tools that it is told on stdin, a line each, and tells each result on stdout, with the forms shown meanwhile.
async function obey(client, call) {
  await client.listTools(); // with their schemas, against which both SDKs hold the results
  for await (const line of createInterface({ input: process.stdin })) {
    const { answers, ...request } = JSON.parse(line);
    Object.assign(person, { answers, asked: [] });
    try {
      tell({ result: await call(request), asked: person.asked });
    } catch (error) {
      tell({ error: error.message, asked: person.asked });
    }
  }
}

const tasks = { converse: async (client, call) => tell(await converse(client, call)), obey, show: obey };

// arguments: [task, transport, era, address-or-command, ...arguments of the command]; to `show` is to obey with forms
export async function main(connected, call) {
  const [task, transport, era, ...target] = process.argv.slice(2);
  const client = await connected(transport, era, target, task === "show" ? answer : undefined);
  await tasks[task](client, (request, onprogress) => call(client, request, onprogress));
  await client.close();
}
