// SPDX-License-Identifier: Apache-2.0
// Server-Sent Events (WHATWG HTML, 9.2.6) from pieces of bytes.

export interface ServerEvent {
  // Such as "stdout".
  type: string;
  // The place in the stream; "" without one.
  id: string;
  data: Record<string, unknown>;
}

export class Parser {
  #decoder = new TextDecoder();
  #rest = "";
  #type = "message";
  #id = "";
  #data: string[] = [];

  // The events that are complete with this piece. An event without data, such as a comment, is left out.
  feed(piece: Uint8Array): ServerEvent[] {
    const lines = (this.#rest + this.#decoder.decode(piece, { stream: true })).split("\n");
    this.#rest = lines.pop() ?? "";
    return lines.map((line) => this.#line(line.replace(/\r$/, ""))).filter((event): event is ServerEvent => event !== null);
  }

  #line(line: string): ServerEvent | null {
    if (line !== "") {
      const colon = line.indexOf(":");
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (name === "event") this.#type = value;
      else if (name === "id") this.#id = value;
      else if (name === "data") this.#data.push(value);
      return null;
    }
    const [type, data] = [this.#type, this.#data];
    this.#type = "message";
    this.#data = [];
    if (data.length === 0) return null;
    const value: unknown = JSON.parse(data.join("\n"));
    return { type, id: this.#id, data: typeof value === "object" && value !== null ? (value as Record<string, unknown>) : { value } };
  }
}
