// Asks `orchestr mcp` as an agent does. The SDK checks each answer against the schema that the tool declares.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, file] = process.argv.slice(2);
const client = new Client({ name: "check", version: "1" });
await client.connect(new StdioClientTransport({ command, args: ["mcp", "-f", file] }));

const { tools } = await client.listTools();
assert.deepEqual(tools.map((tool) => tool.name), ["problems", "explain", "log", "history", "rollout"]);
assert.ok(tools.every((tool) => tool.annotations.readOnlyHint && tool.outputSchema));

let cursor;
let incidents = 0;
do {
  const answer = await client.callTool({ name: "problems", arguments: cursor ? { cursor } : {} });
  assert.ok(JSON.stringify(answer).length <= 16 * 1024);
  assert.deepEqual(JSON.parse(answer.content[0].text), answer.structuredContent);
  incidents += answer.structuredContent.incidents.length;
  cursor = answer.structuredContent.nextCursor;
} while (cursor);
const scanned = JSON.parse(spawnSync(command, ["scan", "-f", file, "-o", "json"]).stdout);
assert.equal(incidents, scanned.incidents.length);
assert.ok(incidents > 10);

const refused = await client.callTool({ name: "log", arguments: { namespace: "shop", pod: "cart" } });
assert.equal(refused.isError, true);
await assert.rejects(client.callTool({ name: "delete", arguments: {} }));
await client.close();
console.log(`5 tools, ${incidents} incidents`);
