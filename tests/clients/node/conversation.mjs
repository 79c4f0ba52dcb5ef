// What every TypeScript client says to the server, whichever SDK it is made of: one JSON report.

async function refusal(promise) {
  try {
    return { result: await promise };
  } catch (error) {
    return { code: error.code, message: error.message };
  }
}

async function names(list, of) {
  return (await list)[of].map((item) => item.uri ?? item.name);
}

export async function converse(client, call) {
  const tools = (await client.listTools()).tools;
  const progress = [];
  // Both SDKs drop a notification that they read together with the result, so the steps take their time.
  const saying = { text: "good morning", times: 2, pause: 0.3 };
  const goal = await call({ name: "shout", arguments: saying }, (step) => progress.push(step));
  const prompt = await client.getPrompt({ name: "shout", arguments: { text: "good morning" } });
  const resource = await client.readResource({ uri: "goalport://goals" });
  return {
    server: client.getServerVersion().name,
    revision: client.getNegotiatedProtocolVersion?.(), // only the 2.x client tells
    tools: Object.fromEntries(tools.map((tool) => [tool.name, tool])),
    banner: await call({ name: "helloBanner", arguments: {} }),
    goal,
    progress,
    bad: await call({ name: "shout", arguments: { text: "hello", times: "often" } }),
    unknown: await refusal(call({ name: "whisper", arguments: {} })),
    prompts: await names(client.listPrompts(), "prompts"),
    prompt: prompt.messages[0].content.text,
    resources: await names(client.listResources(), "resources"),
    resource: resource.contents[0].text,
  };
}
