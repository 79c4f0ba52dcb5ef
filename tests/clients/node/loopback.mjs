// Preloaded by servers that would listen to the whole network: they get a free port of loopback, and say which.
import net from "node:net";

const listen = net.Server.prototype.listen;

net.Server.prototype.listen = function (_port, ...rest) {
  this.once("listening", () => console.error(`on loopback port ${this.address().port}`));
  return listen.call(this, 0, "127.0.0.1", rest.find((each) => typeof each === "function"));
};
