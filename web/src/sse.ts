// SPDX-License-Identifier: Apache-2.0
// Server-Sent Events as text, line by line (WHATWG HTML, 9.2.6).

export interface ServerEvent {
  event: string;
  data: string;
  /** '' before the first id of the stream. */
  id: string;
}

/** Takes a stream's text in pieces, and gives the whole events. A line or an event beyond the bound ends the stream. */
export class EventParser {
  static readonly maxCharacters = 32 * 1024 * 1024;
  private line = '';
  private event = '';
  private data: string[] = [];
  private size = 0;
  private id = '';
  retryMs: number | null = null;

  push(text: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    const lines = (this.line + text).split(/\r\n|\n|\r(?!$)/);
    this.line = lines.pop() ?? '';
    if (this.line.length > EventParser.maxCharacters) throw new Error('a line of the stream is too long');
    for (const line of lines) {
      const ended = this.take(line);
      if (ended) events.push(ended);
    }
    return events;
  }

  private take(line: string): ServerEvent | null {
    if (line === '') {
      const event = this.data.length > 0 ? { event: this.event || 'message', data: this.data.join('\n'), id: this.id } : null;
      this.event = '';
      this.data = [];
      this.size = 0;
      return event;
    }
    const colon = line.indexOf(':');
    if (colon === 0) return null;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (name === 'event') this.event = value;
    else if (name === 'id' && !value.includes('\0')) this.id = value;
    else if (name === 'retry' && /^[0-9]{1,6}$/.test(value)) this.retryMs = Number(value);
    else if (name === 'data') {
      this.size += value.length;
      if (this.size > EventParser.maxCharacters) throw new Error('an event of the stream is too long');
      this.data.push(value);
    }
    return null;
  }
}
