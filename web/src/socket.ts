// SPDX-License-Identifier: Apache-2.0
// The events of an execution over a WebSocket. Browsers do not count it among the six connections to a host, so cells of a
// notebook may follow many programs at once, and go on while the page is hidden.
import { type Connect, connectEvents, type ServerEvent, wsUrl } from './api';
import { ENDED } from './types';

interface Message {
  type: string;
  id?: string;
  status?: string;
  [member: string]: unknown;
}

/** The event as Server-Sent Events have it. */
function eventOf({ type, id, ...rest }: Message): ServerEvent {
  const body = type === 'status' ? rest['execution'] : type === 'usage' || type === 'artifact' ? rest[type] : rest;
  return { event: type, id: id ?? '', data: JSON.stringify(body) };
}

/** As connectEvents, which also takes over where a WebSocket cannot be opened. */
export const connectSocket: Connect = (connection) => new Promise((resolve) => {
  const { path, query, last, signal, opened, heard } = connection;
  const socket = new WebSocket(wsUrl(path, { ...query, last_event_id: last }));
  let open = false;
  let ended = false;
  socket.onopen = () => {
    open = true;
    opened();
  };
  socket.onmessage = ({ data }) => {
    if (signal.aborted) return;
    const message = JSON.parse(String(data)) as Message;
    ended = message.type === 'status' && ENDED.has(message.status ?? '');
    heard([eventOf(message)]);
  };
  socket.onclose = () => resolve(open || signal.aborted ? ended : connectEvents(connection));
  signal.addEventListener('abort', () => {
    socket.close();
    resolve(false);
  });
});
