// Notices of a run by Pusher Channels, without a library. `server` is wss://ws-CLUSTER.pusher.com for the hosted service.

import { pause } from "./notices.js";

const AGAIN = 1000; // milliseconds before another connection
const PROTOCOL = "protocol=7&client=crawler-lifecycle&version=1.0";

export const byPusher = ({ server, key, run }) => async ({ announce, confirmed, failed, signal }) => {
  while (!signal.aborted) {
    const socket = new WebSocket(`${server}/app/${key}?${PROTOCOL}`);
    const close = () => socket.close();
    signal.addEventListener("abort", close);
    const send = (event, data) => socket.send(JSON.stringify({ event, data }));
    socket.onmessage = (message) => {
      const { event, data } = JSON.parse(message.data);
      if (event === "pusher:connection_established") send("pusher:subscribe", { channel: `crawler-run-${run}` });
      if (event === "pusher_internal:subscription_succeeded") confirmed();
      if (event === "pusher:ping") send("pusher:pong", {});
      if (event.startsWith("run-")) announce(JSON.parse(data));
    };
    const { code, reason } = await new Promise((closed) => (socket.onclose = closed));
    signal.removeEventListener("abort", close);
    if (code >= 4000 && code < 4100) return failed(new Error(`Pusher refuses the app: ${reason || code}`)); // by Pusher's protocol, for good
    await pause(AGAIN);
  }
};
