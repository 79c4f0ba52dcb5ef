// The client of the TypeScript SDK 1.x: the one inside most hosts of today. It knows the handshake revisions only.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { main } from "./tasks.mjs";

const transports = {
  http: ([url]) => new StreamableHTTPClientTransport(new URL(url)),
  sse: ([url]) => new SSEClientTransport(new URL(url)),
  stdio: ([command, ...args]) => new StdioClientTransport({ command, args, env: process.env }),
};

async function connected(transport, era, target, answer) {
  const capabilities = answer ? { elicitation: { form: {}, url: {} } } : {};
  const client = new Client({ name: "typescript-1", version: "1.0.0" }, { capabilities });
  if (answer) client.setRequestHandler(ElicitRequestSchema, answer);
  await client.connect(transports[transport](target));
  return client;
}

await main(connected, (client, request, onprogress) => client.callTool(request, undefined, { onprogress }));
