// An authorization server for tests, npm's oidc-provider, on a free port of loopback:
//   node authorization.mjs RESOURCE OPAQUE
// Access tokens for RESOURCE are JWTs, those for OPAQUE only it can read. It tells its address on stderr, and lists what
// was asked for at /test/requests. POST /test/rotate makes another signing key, and /test/silence/1 or 0 says whether
// it answers at all. Everybody may sign in with any name and password.
import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import Provider from "oidc-provider";

const [resource, opaque] = process.argv.slice(2);
const scopes = ["goals:read", "goals:write", "goals:admin", "finance:write"];
const keys = [];
let provider, issuer;
let requests = {};
let silent = false;

function rotate() {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  keys.unshift({ ...privateKey.export({ format: "jwk" }), kid: `key-${keys.length}`, use: "sig", alg: "RS256" });
  provider = new Provider(issuer, configuration());
}

function configuration() {
  const code = { grant_types: ["authorization_code", "refresh_token"], response_types: ["code"] };
  const none = { redirect_uris: [], response_types: [], grant_types: ["client_credentials"] };
  return {
    jwks: { keys: keys.slice(0, 2) },
    scopes: ["openid", "offline_access", ...scopes],
    clients: [
      {
        client_id: "host",
        token_endpoint_auth_method: "none",
        application_type: "native",
        redirect_uris: ["http://127.0.0.1:9/callback"],
        ...code,
      },
      { client_id: "service", client_secret: "service-secret", ...none },
      { client_id: "goalport", client_secret: "goalport-secret", ...none },
    ],
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    cookies: { keys: ["only for tests"] },
    issueRefreshToken: () => true,
    pkce: { required: () => true },
    features: {
      registration: { enabled: true },
      clientCredentials: { enabled: true },
      introspection: { enabled: true, allowedPolicy: () => true },
      revocation: { enabled: true, allowedPolicy: () => true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => resource,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, indicator) => ({
          scope: scopes.join(" "),
          audience: indicator,
          accessTokenFormat: indicator === opaque ? "opaque" : "jwt",
          accessTokenTTL: 300,
          jwt: { sign: { alg: "RS256" } },
        }),
      },
    },
  };
}

function answerTest(path, response) {
  const [, , order, argument] = path.split("/");
  if (order === "rotate") rotate();
  if (order === "silence") silent = argument === "1";
  if (order === "forget") requests = {};
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify(requests));
}

const server = createServer((request, response) => {
  const path = request.url.split("?")[0];
  if (path.startsWith("/test/")) return answerTest(path, response);
  requests[path] = (requests[path] ?? 0) + 1;
  if (silent) return response.writeHead(503).end();
  return provider.callback()(request, response);
});
server.listen(0, "127.0.0.1", () => {
  issuer = `http://127.0.0.1:${server.address().port}`;
  rotate();
  console.error(`authorization server ready on ${issuer}`);
});
