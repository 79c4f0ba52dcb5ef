// OpenAI's own client: it sends the requests that it is told on stdin, a line of JSON each, and tells what came of each.
import { createInterface } from "node:readline";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "unknown", maxRetries: 0 });

async function whole({ params }) {
  const { data, response } = await client.chat.completions.create(params).withResponse();
  return { text: data.choices[0].message.content, conversation: response.headers.get("x-conversation-id") };
}

async function streamed({ params }) {
  const stream = client.chat.completions.stream({ ...params, stream_options: { include_usage: true } });
  const pieces = [];
  for await (const chunk of stream) if (chunk.choices[0]?.delta.content) pieces.push(chunk.choices[0].delta.content);
  const { choices, usage } = await stream.finalChatCompletion();
  return { pieces, text: choices[0].message.content, reason: choices[0].finish_reason, usage };
}

async function response({ params }) {
  const { id, output_text, conversation } = await client.responses.create(params);
  return { id, text: output_text, conversation: conversation.id };
}

async function streamedResponse({ params }) {
  const stream = client.responses.stream(params);
  const types = [];
  for await (const event of stream) types.push(event.type);
  return { types, text: (await stream.finalResponse()).output_text };
}

async function models() {
  return { names: (await client.models.list()).data.map((each) => each.id) };
}

const known = { whole, streamed, response, streamedResponse, models };

async function ask(line) {
  try {
    return await known[line.ask](line);
  } catch ({ name, status, code, param, message }) {
    return { error: { name, status, code, param, message } };
  }
}

for await (const line of createInterface({ input: process.stdin })) console.log(JSON.stringify(await ask(JSON.parse(line))));
