// SPDX-License-Identifier: Apache-2.0
// The session's files: a list that follows changes, an editor for text, uploads by drag, and downloads.
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ApiError, del, filePath, follow, get, isAbort, labelled, path, post, request, sayError } from '../../api';
import { useDraft } from '../../drafts';
import { Bytes, Button, Confirm, Dialog, Empty, ErrorState, Form, Icon, Input, Loading, Notice, Select, Table, Time, toast, toastError, Untrusted, type Column } from '../../parts';
import { setQuery, useGuard, useRoute } from '../../router';
import { fileName } from '../../save';
import { may } from '../../session';
import { bytes, visible } from '../../text';
import type { Session } from '../../types';
import { download } from '../executions/artifacts';
import { type FilePath, filePathOf, isTypable } from './file_path';
import { lineEnd, wrongPath } from './text_file';

interface Entry extends FilePath {
  type: 'file' | 'directory' | 'link' | 'other';
  size: number;
  mode: string;
  modified_at: string | null;
}

type Answered = Omit<Entry, keyof FilePath> & { path: string; escaped?: true };
/** An entry that requests can name. */
type Named = Entry & { path: string };
const isNamed = (entry: Entry): entry is Named => entry.path !== null;

const ROOTS = [{ value: 'workspace', label: '/workspace' }, { value: 'home', label: '/home/user' }, { value: 'tmp', label: '/tmp' }] as const;
type Root = (typeof ROOTS)[number]['value'];
const MAX_EDIT = 1024 * 1024;
const MAX_UPLOADS = 500;

const baseName = (name: string): string => name.split('/').pop() ?? name;
/** Of a path, for labels and titles. */
const shownName = (name: string): string => visible(baseName(name));
const NOT_TEXT = 'Its name is not UTF-8: use the terminal.';
const join = (directory: string, name: string): string => (directory ? `${directory}/${name}` : name);

type Asked = { what: 'mkdir' | 'new' } | { what: 'move' | 'remove'; entry: Named };

interface Listing {
  entries: Entry[] | null;
  leftOut: number;
  error: unknown;
  reload(): void;
}

/** A directory, read again when the service reports a change in it, and when the watch was away. */
function useListing(session: string, root: Root, directory: string): Listing {
  const [state, setState] = useState<{ entries: Entry[] | null; leftOut: number; error: unknown }>({ entries: null, leftOut: 0, error: null });
  const [round, setRound] = useState(0);
  useEffect(() => setState({ entries: null, leftOut: 0, error: null }), [session, root, directory]);
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    const read = (): void => {
      get<{ entries: Answered[]; left_out: number }>(path`/v1/sessions/${session}/files`, { query: { root, path: directory, depth: 1, limit: 10_000 }, signal: abort.signal }).then(
        (body) => setState({ entries: body.entries.map((one) => ({ ...one, ...filePathOf(one) })).filter((one) => one.path !== directory), leftOut: body.left_out, error: null }),
        (error: unknown) => {
          if (!isAbort(error)) setState((old) => ({ ...old, error }));
        });
    };
    const readSoon = (): void => {
      clearTimeout(timer);
      timer = window.setTimeout(read, 250);
    };
    let opened = false;
    read();
    void follow(path`/v1/sessions/${session}/files:watch`, {
      signal: abort.signal, query: { root, path: directory },
      onEvent: ({ event }) => {
        if (['created', 'modified', 'moved', 'removed', 'overflow'].includes(event)) readSoon();
      },
      onState: (state) => {
        if (state !== 'open') return;
        if (opened) readSoon();
        opened = true;
      },
    }).catch(() => undefined);
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [session, root, directory, round]);
  return { ...state, reload: () => setRound((now) => now + 1) };
}

export function Files({ session }: { session: Session }): JSX.Element {
  const { query } = useRoute();
  const root = ROOTS.find((one) => one.value === query.get('root'))?.value ?? 'workspace';
  const directory = query.get('dir') ?? '';
  const wanted = query.get('file');
  const file = wanted && !wrongPath(wanted, root) ? wanted : null;
  const listing = useListing(session.id, root, directory);
  const write = may('file.write');
  const [asking, setAsking] = useState<Asked | null>(null);
  const where = (name: string): string => `${path`/v1/sessions/${session.id}/files`}/${filePath(name)}`;
  const upload = useUpload(where, root, directory, listing.reload);
  const [replacing, setReplacing] = useState<{ files: File[]; names: string[] } | null>(null);
  const uploadOrAsk = (files: File[]): void => {
    const present = new Set(listing.entries?.map((one) => one.path));
    const names = files.map((one) => one.name).filter((name) => present.has(join(directory, name)));
    if (names.length > 0) setReplacing({ files, names });
    else void upload.send(files);
  };
  const [over, setOver] = useState(false);
  const picker = useRef<HTMLInputElement>(null);
  const columns: Column<Entry>[] = useMemo(() => [
    {
      key: 'name', title: 'Name', width: 'minmax(140px, 3fr)', compare: (a, b) => a.shown.localeCompare(b.shown),
      cell: (row) => (
        <span class="file-name">
          <Icon name={row.type === 'directory' ? 'folder' : 'file'} /><Untrusted value={baseName(row.shown)} mono />
          {row.type === 'link' || row.type === 'other' ? <span class="faint"> {row.type}</span> : null}
          {!isNamed(row) && <span class="soft"> {NOT_TEXT}</span>}
        </span>
      ),
    },
    { key: 'size', title: 'Size', width: '84px', align: 'end', cell: (row) => (row.type === 'file' ? <Bytes count={row.size} /> : ''), compare: (a, b) => a.size - b.size },
    { key: 'mode', title: 'Mode', width: '60px', wide: true, cell: (row) => <code>{row.mode}</code> },
    { key: 'at', title: 'Changed', width: '84px', align: 'end', wide: true, cell: (row) => <Time at={row.modified_at} relative />, compare: (a, b) => (a.modified_at ?? '').localeCompare(b.modified_at ?? '') },
    {
      key: 'do', title: '', width: '190px', align: 'end', wide: true,
      cell: (row) => isNamed(row) && (
        <>
          {row.type === 'file' && <Button small kind="quiet" label={`Save ${shownName(row.path)}`} onClick={() => download(where(row.path), baseName(row.path), { root })}>Save</Button>}
          {row.type === 'directory' && <Button small kind="quiet" label={`Save ${shownName(row.path)} as tar`} onClick={() => download(path`/v1/sessions/${session.id}/archive`, `${baseName(row.path)}.tar`, { root, path: row.path })}>Save</Button>}
          {write && <Button small kind="quiet" label={`Rename ${shownName(row.path)}`} onClick={() => setAsking({ what: 'move', entry: row })}>Rename</Button>}
          {write && <Button small kind="quiet" label={`Delete ${shownName(row.path)}`} onClick={() => setAsking({ what: 'remove', entry: row })}>Delete</Button>}
        </>
      ),
    },
  ], [session.id, root, directory, write]);
  const open = (row: Entry): void => {
    if (!isNamed(row)) toast(NOT_TEXT);
    else if (row.type === 'directory') setQuery({ dir: row.path, file: undefined }, true);
    else if (row.type === 'file') setQuery({ file: row.path }, true);
    else toast('A link or a device is not followed. Look at it in the terminal.');
  };
  const sorted = useMemo(() => [...(listing.entries ?? [])].sort((a, b) => Number(b.type === 'directory') - Number(a.type === 'directory') || a.shown.localeCompare(b.shown)), [listing.entries]);
  return (
    <div
      class={`files ${over ? 'over' : ''}`}
      onDragOver={(event) => {
        if (!write || !event.dataTransfer?.types.includes('Files')) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={(event) => {
        if (event.target === event.currentTarget) setOver(false);
      }}
      onDrop={(event) => {
        if (!write) return;
        event.preventDefault();
        setOver(false);
        uploadOrAsk([...(event.dataTransfer?.files ?? [])]);
      }}
    >
      <div class="row">
        <Crumbs root={root} directory={directory} />
        <span class="grow" />
        {write && !listing.error && (
          <>
            <Button small onClick={() => setAsking({ what: 'new' })}>New file…</Button>
            <Button small onClick={() => setAsking({ what: 'mkdir' })}>New directory…</Button>
            <Button small kind="primary" onClick={() => picker.current?.click()}>Upload…</Button>
            <input ref={picker} type="file" multiple hidden aria-label="Files to upload" onChange={(event) => { uploadOrAsk([...(event.currentTarget.files ?? [])]); event.currentTarget.value = ''; }} />
          </>
        )}
      </div>
      {upload.state && <Notice tone="busy" title={`Uploading ${upload.state.done} of ${upload.state.all}`}><p><Untrusted value={upload.state.name} /></p><Button small onClick={upload.stop}>Stop</Button></Notice>}
      <div class={`panes ${file ? 'open' : 'closed'}`}>
        <div class="pane-main">
          {listing.error ? <ErrorState error={listing.error} retry={listing.reload} />
            : !listing.entries ? <Loading what="files" />
              : (
                <Table
                  label="Files" rows={sorted} columns={columns} id={(row) => row.path ?? `/${row.shown}`} onOpen={open} current={file} filterText={(row) => baseName(row.shown)}
                  empty={<Empty title="This directory is empty.">{write ? 'Drag files here, or make one in the terminal.' : 'Programs of the session may write files here.'}</Empty>}
                />
              )}
          {listing.leftOut > 0 && <p class="soft">and {listing.leftOut} more, which are not listed. Use the terminal to see them.</p>}
        </div>
        {file && <section class="pane" aria-label={`File ${visible(file)}`}><Editor key={`${root}/${file}`} where={where(file)} root={root} name={file} writable={write} onSaved={listing.reload} /></section>}
      </div>
      {write && <p class="hint drop-hint" aria-hidden="true">Drag files onto the list to upload them here.</p>}
      {replacing && (
        <Confirm
          title={`Replace ${replacing.names.length === 1 ? shownName(replacing.names[0] ?? '') : `${replacing.names.length} files`}?`} action="Replace"
          onClose={() => setReplacing(null)} onConfirm={() => { void upload.send(replacing.files); }}
        >
          <p>{replacing.names.length === 1 ? 'A file of this name is' : 'Files of these names are'} here already. What is in {replacing.names.length === 1 ? 'it' : 'them'} will be lost.</p>
          {replacing.names.length > 1 && <p class="soft"><Untrusted value={replacing.names.join(', ')} cut={600} /></p>}
        </Confirm>
      )}
      {asking && <Ask asking={asking} session={session} root={root} directory={directory} where={where} onClose={() => setAsking(null)} done={listing.reload} />}
    </div>
  );
}

function Crumbs({ root, directory }: { root: Root; directory: string }): JSX.Element {
  const parts = directory ? directory.split('/') : [];
  return (
    <nav class="crumbs" aria-label="Directory">
      <Select label="Root" value={root} options={ROOTS} onChange={(value) => setQuery({ root: value === 'workspace' ? undefined : value, dir: undefined, file: undefined }, true)} />
      {parts.map((part, index) => (
        <span key={index}>
          <span aria-hidden="true">/</span>
          <button type="button" class="quiet mono" onClick={() => setQuery({ dir: parts.slice(0, index + 1).join('/'), file: undefined }, true)}><Untrusted value={part} /></button>
        </span>
      ))}
      {parts.length > 0 && <Button small kind="quiet" label="To the directory above" onClick={() => setQuery({ dir: parts.slice(0, -1).join('/') || undefined, file: undefined }, true)}>Up</Button>}
    </nav>
  );
}

function useUpload(where: (name: string) => string, root: Root, directory: string, done: () => void): {
  state: { done: number; all: number; name: string } | null; send(files: File[]): Promise<void>; stop(): void;
} {
  const [state, setState] = useState<{ done: number; all: number; name: string } | null>(null);
  const abort = useRef<AbortController | null>(null);
  const send = async (files: File[]): Promise<void> => {
    if (state) return toast('An upload is running. Wait for its end.');
    if (files.length > MAX_UPLOADS) return toast(`At most ${MAX_UPLOADS} files at once. Upload an archive in the terminal instead.`, 'bad');
    const controller = new AbortController();
    abort.current = controller;
    let sent = 0;
    for (const [index, file] of files.entries()) {
      setState({ done: index, all: files.length, name: file.name });
      if (wrongPath(file.name, root)) {
        toast(`“${file.name}” is no name of a file here.`, 'bad');
        continue;
      }
      try {
        await file.slice(0, 1).arrayBuffer();  // a directory cannot be read
      } catch {
        toast(`${file.name} is a directory. Upload its files, or an archive.`, 'bad');
        continue;
      }
      try {
        await request('PUT', where(join(directory, file.name)), { query: { root }, body: file, headers: { 'Content-Type': 'application/octet-stream' }, signal: controller.signal });
        sent += 1;
      } catch (error) {
        if (isAbort(error)) break;
        toastError(error);
      }
    }
    setState(null);
    if (sent > 0) toast(`${sent} ${sent === 1 ? 'file' : 'files'} uploaded.`, 'good');
    done();
    return undefined;
  };
  return { state, send, stop: () => abort.current?.abort() };
}

function Ask({ asking, session, root, directory, where, onClose, done }: {
  asking: Asked; session: Session; root: Root; directory: string;
  where(name: string): string; onClose(): void; done(): void;
}): JSX.Element {
  // A field cannot hold every path: such a directory stands before the field.
  const under = isTypable(directory) ? '' : directory;
  const [typed, setTyped] = useState(() => {
    const base = 'entry' in asking ? baseName(asking.entry.path) : '';
    return join(under ? '' : directory, isTypable(base) ? base : fileName(base));
  });
  const name = join(under, typed);
  const [error, setError] = useState<string | null>(null);
  if (asking.what === 'remove') {
    const { entry } = asking;
    return (
      <Confirm title={`Delete ${shownName(entry.path)}?`} action="Delete" onClose={onClose} onConfirm={async () => { await del(where(entry.path), { query: { root, recursive: entry.type === 'directory' } }); done(); }}>
        <p>{entry.type === 'directory' ? 'The directory and all that is in it is' : 'The file is'} deleted from the session. Nobody can take this back.</p>
      </Confirm>
    );
  }
  const titles = { mkdir: 'New directory', new: 'New file', move: 'Rename' };
  const wrong = typed === '' || typed.endsWith('/') ? null : wrongPath(name, ROOTS.find((one) => one.value === root)?.label ?? root);
  const send = async (): Promise<void> => {
    const action = async (): Promise<void> => {
      if (asking.what === 'mkdir') await post(`${path`/v1/sessions/${session.id}/files`}:mkdir`, { path: name }, { query: { root } });
      else if (asking.what === 'move') await post(`${path`/v1/sessions/${session.id}/files`}:move`, { from: asking.entry.path, to: name }, { query: { root } });
      else {
        await request('PUT', where(name), { query: { root, offset: 0 }, body: '', headers: { 'Content-Type': 'application/octet-stream' } });
        setQuery({ file: name }, true);
      }
    };
    try {
      await action();
      done();
      onClose();
    } catch (failed) {
      const taken = asking.what !== 'new' && failed instanceof ApiError && failed.status === 409 && /there already/.test(failed.message);
      setError(taken ? `${visible(name)} is there already. Choose another name, or delete it first.` : sayError(labelled(failed, { path: 'Path', to: 'Path', 'url.path': 'Path' })));
    }
  };
  return (
    <Dialog title={titles[asking.what]} onClose={onClose}>
      <Form onSubmit={() => (wrong ? undefined : send())}>
        <Input label="Path" value={typed} onInput={(value) => { setTyped(value); setError(null); }} mono autoFocus error={wrong ?? error} hint={under ? `Below ${visible(under)}. Missing directories above are made.` : 'Missing directories above are made.'} />
        <div class="dialog-actions"><Button onClick={onClose}>Cancel</Button><Button type="submit" kind="primary" disabled={typed === '' || typed.endsWith('/') || wrong !== null}>{asking.what === 'move' ? 'Rename' : 'Make it'}</Button></div>
      </Form>
    </Dialog>
  );
}

interface Opened {
  /** As the text area has it: lines end in \n. */
  text: string;
  /** '': unknown, so a person is asked before the file is written. */
  etag: string;
  end: '\n' | '\r\n';
}

interface Edit {
  opened: Opened | null;
  text: string;
}

const isChanged = ({ opened, text }: Edit): boolean => opened !== null && text !== opened.text;

function Editor({ where, root, name, writable, onSaved }: { where: string; root: Root; name: string; writable: boolean; onSaved(): void }): JSX.Element {
  const [{ opened, text }, setEdit] = useDraft<Edit>(`file ${root}/${name}`, { opened: null, text: '' }, isChanged);
  const setText = (typed: string): void => setEdit((old) => ({ ...old, text: typed }));
  const [problem, setProblem] = useState<{ error?: unknown; says?: string } | null>(null);
  const [conflict, setConflict] = useState(false);
  const [round, setRound] = useState(0);
  const back = useRef(opened !== null);  // from before the sign-in ended: with its ETag, so that a change meanwhile is found
  useEffect(() => {
    if (back.current) {
      back.current = false;
      return undefined;
    }
    const abort = new AbortController();
    setProblem(null);
    setConflict(false);
    request('GET', where, { query: { root }, headers: { Accept: '*/*', Range: `bytes=0-${MAX_EDIT}` }, signal: abort.signal }).then(async (response) => {
      const raw = new Uint8Array(await response.arrayBuffer());
      if (raw.length > MAX_EDIT) return setProblem({ says: `It is larger than ${bytes(MAX_EDIT)}. Save it to look at it.` });
      try {
        const read = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(raw);
        const end = lineEnd(read);
        if (!end) return setProblem({ says: 'Its lines end in several ways, which the editor would change. Save it to look at it, or edit it in the terminal.' });
        const shown = end === '\n' ? read : read.replace(/\r\n/g, '\n');
        setEdit({ opened: { text: shown, etag: response.headers.get('ETag') ?? '', end }, text: shown });
      } catch {
        setProblem({ says: 'It is no text. Save it to look at it.' });
      }
      return undefined;
    }).catch(async (error: unknown) => {
      if (isAbort(error)) return;
      if (error instanceof ApiError && error.status === 416) {  // an empty file has no range
        const now = await headOf(where, root);
        if (abort.signal.aborted) return;
        setEdit({ opened: { text: '', etag: now?.size === 0 ? now.etag : '', end: '\n' }, text: '' });
      } else setProblem({ error });
    });
    return () => abort.abort();
  }, [where, root, round]);
  const changed = isChanged({ opened, text });
  useGuard(changed, ['tab', 'root', 'file']);
  const saving = useRef(false);
  const save = async (anyway: boolean): Promise<void> => {
    if (saving.current || !opened) return;
    saving.current = true;
    const { end } = opened;
    try {
      if (!anyway && await changedMeanwhile(where, root, opened.etag)) return setConflict(true);
      const body = end === '\n' ? text : text.replace(/\n/g, end);
      const answer = await request('PUT', where, { query: { root }, body, headers: { 'Content-Type': 'application/octet-stream' } });
      const { size } = (await answer.json()) as { size: number };
      const now = answer.headers.get('ETag') ? null : await headOf(where, root);
      // What was typed meanwhile stays, and is not saved. A program may have written between the two requests.
      const saved = { text, etag: answer.headers.get('ETag') ?? (now?.size === size ? now.etag : ''), end };
      setEdit((old) => ({ ...old, opened: saved }));
      toast(`${shownName(name)} is saved.`, 'good');
      onSaved();
    } catch (error) {
      toastError(error);
    } finally {
      saving.current = false;
    }
    return undefined;
  };
  return (
    <div class="editor">
      <div class="row">
        <h2 class="pane-title"><Untrusted value={baseName(name)} mono /></h2>
        {changed && <span class="soft">not saved</span>}
        <span class="grow" />
        <Button small onClick={() => download(where, baseName(name), { root })}>Save to this computer</Button>
        {writable && opened && <Button small kind="primary" disabled={!changed} onClick={() => save(false)}>Save</Button>}
        <Button small kind="quiet" label="Close the file" onClick={() => setQuery({ file: undefined }, true)}>Close</Button>
      </div>
      {conflict && (
        <Notice tone="warn" title="A program has changed the file meanwhile.">
          <div class="row"><Button small onClick={() => setRound((now) => now + 1)}>Read it again, and lose my changes</Button><Button small kind="danger" onClick={() => { setConflict(false); return save(true); }}>Write mine over it</Button></div>
        </Notice>
      )}
      {problem ? (problem.error ? <ErrorState error={problem.error} /> : <p class="soft">{problem.says}</p>)
        : !opened ? <Loading />
          : (
            <textarea
              class="mono editor-text" value={text} readOnly={!writable} spellcheck={false} aria-label={`Content of ${shownName(name)}`} onInput={(event) => setText(event.currentTarget.value)}
              onKeyDown={(event) => {
                if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 's') {
                  event.preventDefault();
                  if (changed && writable) void save(false);
                }
              }}
            />
          )}
    </div>
  );
}

/** The file's present ETag and size, or null. */
async function headOf(where: string, root: Root): Promise<{ etag: string; size: number } | null> {
  try {
    const { headers } = await request('HEAD', where, { query: { root }, headers: { Accept: '*/*' } });
    return { etag: headers.get('ETag') ?? '', size: Number(headers.get('Content-Length')) };
  } catch {
    return null;
  }
}

/** Whether the file has another ETag now. A file that is gone has changed. */
async function changedMeanwhile(where: string, root: Root, etag: string): Promise<boolean> {
  if (etag === '') return true;
  try {
    const response = await request('GET', where, { query: { root }, headers: { Accept: '*/*', 'If-None-Match': etag } });
    void response.body?.cancel();
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.status === 304) return false;
    if (error instanceof ApiError && error.status === 404) return true;
    throw error;
  }
}
