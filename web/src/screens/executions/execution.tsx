// SPDX-License-Identifier: Apache-2.0
// One execution: its output while it runs, its results, use, network, packages, origin and receipt.
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { del, path, post } from '../../api';
import { useDraft } from '../../drafts';
import { Button, Card, Confirm, CopyButton, ErrorState, Facts, Id, Loading, Notice, Output, Page, Result, Status, TabPanel, Tabs, Time, toastError, Untrusted, useTab } from '../../parts';
import { approvalPath } from '../../places';
import { Link, navigate } from '../../router';
import { isAdmin, isOwn, may } from '../../session';
import { number, outputText } from '../../text';
import { ENDED, type Execution, ownerName } from '../../types';
import type { ScreenProps } from '../registry';
import { ArtifactList, download } from './artifacts';
import { MAX_PREVIEW, PICTURES, Preview } from './artifact';
import { Network, Packages } from './network';
import { NewRun } from './new_run';
import { Program } from './program';
import { Provenance } from './receipt';
import { commandLine, type KeptRequest, requestOf } from './requests';
import { RunTime } from './run_time';
import { type Following, useFollowing } from './stream';
import { UsageView } from './usage';

const TABS = ['output', 'results', 'program', 'usage', 'network', 'packages', 'provenance'] as const;

export default function ExecutionScreen({ params }: ScreenProps): JSX.Element {
  const id = params['id'] ?? '';
  const following = useFollowing(id);
  const { execution } = following;
  const kept = useRequest(id);
  const tabs = TABS.filter((one) => one !== 'program' || kept);
  const tab = useTab(tabs);
  const [asking, setAsking] = useState(false);
  const [changing, setChanging] = useDraft('changed run', false);
  // A person repeats what has all its values, in a session only of the own tenant.
  const request = kept?.withheld.length === 0 ? kept.request : null;
  const up = { to: 'executions', label: 'Executions' };
  if (!execution) {
    return <Page title={id} up={up}>{following.error ? <ErrorState error={following.error} retry={following.reload} /> : <Loading what={id} />}</Page>;
  }
  const ended = ENDED.has(execution.status);
  const line = request ? commandLine(execution.session_id ? { ...request, session_id: execution.session_id } : request) : null;
  const again = request && may(execution.session_id ? 'session.use' : 'execution.run') && (!execution.session_id || isOwn(execution.principal));
  const rerun = async (): Promise<void> => {
    if (!request) return;
    try {
      const where = execution.session_id ? path`/v1/sessions/${execution.session_id}/exec` : '/v1/executions';
      const made = await post<Execution>(where, request);
      navigate(`executions/${made.id}`);
    } catch (error) {
      toastError(error);
    }
  };
  const counts: Record<string, ComponentChildren> = {
    results: (execution.results?.length ?? 0) + execution.artifacts.length, network: execution.network.connections + execution.network.denied.length,
    packages: execution.provenance.layers?.length ?? 0,
  };
  return (
    <Page
      title={id} up={up} heading={<Id value={id} />} status={<Status value={execution.status} />}
      actions={(
        <>
          {line && <CopyButton value={line} what="the command line">Copy as command line</CopyButton>}
          {again && !execution.session_id && <Button onClick={() => setChanging(true)}>Change and run…</Button>}
          {again && <Button onClick={rerun}>Run again</Button>}
          {!ended && may('execution.stop') && <Button kind="danger" onClick={() => setAsking(true)}>Cancel…</Button>}
        </>
      )}
    >
      <div class="stack">
        <Story execution={execution} />
        <div>
          <Tabs label="Parts of the execution" current={tab} tabs={tabs.map((key) => ({ key, label: <>{key[0]?.toUpperCase()}{key.slice(1)}{counts[key] ? <span class="count">{counts[key]}</span> : null}</> }))} />
          <TabPanel tab={tab}>
            {tab === 'output' && <OutputView following={following} execution={execution} />}
            {tab === 'results' && <Results execution={execution} />}
            {tab === 'program' && kept && <Program kept={kept} />}
            {tab === 'usage' && <UsageView execution={execution} points={following.points} arrived={following.arrived} />}
            {tab === 'network' && <Network execution={execution} />}
            {tab === 'packages' && <Packages execution={execution} />}
            {tab === 'provenance' && <Provenance execution={execution} />}
          </TabPanel>
        </div>
      </div>
      {changing && request && <NewRun first={request} onClose={() => setChanging(false)} />}
      {asking && (
        <Confirm title="Cancel this execution?" action="Cancel it" onClose={() => setAsking(false)} onConfirm={() => del(path`/v1/executions/${id}`)}>
          <p>The program and all its child processes end at once. The output so far is kept.</p>
        </Confirm>
      )}
    </Page>
  );
}

function useRequest(id: string): KeptRequest | null {
  const [request, setRequest] = useState<KeptRequest | null>(null);
  useEffect(() => {
    setRequest(null);
    if (!may('execution.run')) return undefined;
    const abort = new AbortController();
    requestOf(id, abort.signal).then(setRequest, () => undefined);
    return () => abort.abort();
  }, [id]);
  return request;
}

/** What became of it, in one place. */
function Story({ execution }: { execution: Execution }): JSX.Element {
  const { error } = execution;
  const escalation = error?.details['escalation_id'];
  return (
    <>
      {execution.status === 'blocked' && (
        <Notice tone="warn" title="It waits for a person.">
          <p><Untrusted value={error?.message ?? ''} /></p>
          {typeof escalation === 'string' && <p><Link to={approvalPath(escalation, isAdmin() ? execution.principal.tenant : null)}>Look at {escalation}</Link></p>}
        </Notice>
      )}
      {error && execution.status !== 'blocked' && (
        <Notice tone="bad" title={error.type.toLowerCase().replace(/_/g, ' ')}>
          <p><Untrusted value={error.message} /></p>
          {Object.keys(error.details).length > 0 && <p class="soft"><Untrusted value={Object.entries(error.details).map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`).join(', ')} /></p>}
        </Notice>
      )}
      <Card class="facts-wide">
        <Facts rows={[
          ['Program', execution.cell ? `cell ${execution.cell.number} of the interpreter ${execution.cell.kernel}` : (execution.language ?? 'command')],
          ['Exit', execution.signal ?? (execution.exit_code === null ? '–' : String(execution.exit_code))],
          ['Time', <RunTime key="w" execution={execution} />],
          ['Who', <Untrusted key="p" value={`${ownerName(execution.principal)}, ${execution.principal.tenant}`} />],
          ['Created', <Time key="c" at={execution.created_at} />],
          ['Started', <Time key="s" at={execution.started_at} />],
          ['Ended', <Time key="e" at={execution.finished_at} />],
          ['Runtime', execution.provenance.runtime ?? '–'],
          ...(execution.session_id ? [['Session', <Link key="x" class="mono" to={`sessions/${execution.session_id}`}>{execution.session_id}</Link>] as [string, JSX.Element]] : []),
          ...(execution.parent_id ? [['Called by', <Link key="y" class="mono" to={`executions/${execution.parent_id}`}>{execution.parent_id}</Link>] as [string, JSX.Element]] : []),
          ...Object.entries(execution.metadata).slice(0, 12).map(([name, value]): [string, JSX.Element] => [name.slice(0, 60), <Untrusted key={name} value={value} cut={200} />]),
        ]} />
      </Card>
    </>
  );
}

function OutputView({ following, execution }: { following: Following; execution: Execution }): JSX.Element {
  const ended = ENDED.has(execution.status);
  const stdout = Math.max(execution.stdout_bytes, following.arrived.stdout);
  const stderr = Math.max(execution.stderr_bytes, following.arrived.stderr);
  const save = (stream: 'stdout' | 'stderr') => () =>
    download(path`/v1/executions/${execution.id}/logs`, `${execution.id}.${stream}.txt`, { stream });
  return (
    <div class="stack">
      {execution.compile && (execution.compile.exit_code !== 0 || execution.compile.stderr) && (
        <Card title={`Compiler, exit ${execution.compile.exit_code}`}><pre class="output plain">{outputText(execution.compile.stdout + execution.compile.stderr)}</pre></Card>
      )}
      <Card
        title="Output" class="flush"
        actions={(
          <>
            <span class="soft" role="status">{!ended && (following.state === 'open' ? 'live' : following.state === 'waiting' ? 'connection lost, trying again' : 'connecting')}</span>
            <span class="faint num">{number(stdout)} + {number(stderr)} bytes</span>
            <Button small onClick={save('stdout')} disabled={stdout === 0}>Save stdout</Button>
            <Button small onClick={save('stderr')} disabled={stderr === 0}>Save stderr</Button>
          </>
        )}
      >
        {following.dropped > 0 && <p class="soft note">The first {number(following.dropped)} characters are not shown here. Save the output to read them.</p>}
        {(execution.stdout_truncated || execution.stderr_truncated) && (
          <p class="soft note">
            The service kept a part.
            {[execution.stdout_artifact, execution.stderr_artifact].filter((one): one is string => !!one).map((one) => <span key={one}> The whole is in <Link to={`artifacts/${one}`} class="mono">{one}</Link>.</span>)}
          </p>
        )}
        <Output label="Output of the program" chunks={following.chunks} empty={ended ? 'The program wrote nothing.' : execution.status === 'blocked' ? 'Nothing runs before the approval.' : 'Nothing yet.'} />
      </Card>
      <ResultList execution={execution} />
    </div>
  );
}

/** Figures, tables and values of a cell. */
export function ResultList({ execution }: { execution: Execution }): JSX.Element | null {
  const results = execution.results ?? [];
  if (results.length === 0 && !execution.results_left_out?.length) return null;
  return (
    <div class="stack">
      {results.map((result, index) => <Result key={index} result={result} title={`Result ${index + 1} of ${execution.id}`} />)}
      {execution.results_left_out?.map((one, index) => (
        <p key={index} class="soft">A part was left out: {one.result === null ? 'a result' : `result ${one.result + 1}`}{one.type ? ` as ${one.type}` : ''}, {number(one.bytes)} bytes.</p>
      ))}
    </div>
  );
}

const MAX_PICTURES = 12;

/** Values, figures and files: pictures that a run left are drawn as the figures that they mostly are. */
function Results({ execution }: { execution: Execution }): JSX.Element {
  const none = (execution.results?.length ?? 0) === 0;
  const pictures = may('artifact.read') ? execution.artifacts.filter((one) => PICTURES.includes(one.content_type) && one.size <= MAX_PREVIEW).slice(0, MAX_PICTURES) : [];
  return (
    <div class="stack">
      {none && execution.artifacts.length === 0 ? <p class="soft">No values or figures. Cells of a session’s interpreter have them; a run leaves files.</p> : <ResultList execution={execution} />}
      {pictures.map((one) => <Card key={one.id} title={<Untrusted value={one.path} mono cut={200} />}><Preview artifact={one} /></Card>)}
      <Card title="Files it left" class="flush"><ArtifactList artifacts={execution.artifacts} ended={ENDED.has(execution.status)} /></Card>
    </div>
  );
}
