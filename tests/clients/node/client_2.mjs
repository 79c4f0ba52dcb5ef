// The client of the TypeScript SDK 2.x, in the era that it is told to speak.
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { main } from "./tasks.mjs";

const transports = {
  http: ([url]) => new StreamableHTTPClientTransport(new URL(url)),
  sse: ([url]) => new SSEClientTransport(new URL(url)),
  stdio: ([command, ...args]) => new StdioClientTransport({ command, args, env: process.env }),
};
const modes = { legacy: "legacy", modern: { pin: "2026-07-28" } };

async function connected(transport, era, target, answer) {
  const capabilities = answer ? { elicitation: { form: {}, url: {} } } : {};
  const client = new Client(
    { name: "typescript-2", version: "1.0.0" },
    { capabilities, versionNegotiation: { mode: modes[era] } },
  );
  if (answer) client.setRequestHandler("elicitation/create", answer);
  await client.connect(transports[transport](target));
  return client;
}

await main(connected, (client, request, onprogress) => client.callTool(request, { onprogress }));
