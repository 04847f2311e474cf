// SPDX-License-Identifier: Apache-2.0
// Sessions and snapshots as trees: a snapshot hangs below its session, and a fork below its snapshot.
import type { Session, Snapshot } from '../../types';

export interface TreeNode {
  kind: 'session' | 'snapshot';
  id: string;
  session?: Session;
  snapshot?: Snapshot;
  children: TreeNode[];
}

const byTime = (a: TreeNode, b: TreeNode): number =>
  (a.session?.created_at ?? a.snapshot?.created_at ?? '').localeCompare(b.session?.created_at ?? b.snapshot?.created_at ?? '');

/** The tree that a session belongs to, from its oldest known ancestor on. Records that are gone stay as bare ids. */
export function treeOf(id: string, sessions: Session[], snapshots: Snapshot[]): TreeNode {
  const nodes = new Map<string, TreeNode>();
  const node = (kind: TreeNode['kind'], key: string): TreeNode => {
    const known = nodes.get(key);
    if (known) return known;
    const made: TreeNode = { kind, id: key, children: [] };
    nodes.set(key, made);
    return made;
  };
  const parents = new Map<string, string>();
  const hang = (parent: TreeNode, child: TreeNode): void => {
    parents.set(child.id, parent.id);
    parent.children.push(child);
  };
  for (const session of sessions) node('session', session.id).session = session;
  for (const snapshot of snapshots) {
    const child = node('snapshot', snapshot.id);
    child.snapshot = snapshot;
    hang(node('session', snapshot.session_id), child);
  }
  for (const session of sessions) {
    if (session.from_snapshot) hang(node('snapshot', session.from_snapshot), node('session', session.id));
  }
  for (const each of nodes.values()) each.children.sort(byTime);
  let root = node('session', id);
  const seen = new Set([root.id]);
  for (let up = parents.get(root.id); up !== undefined && !seen.has(up); up = parents.get(up)) {
    seen.add(up);
    root = nodes.get(up) ?? root;
  }
  return root;
}

/** The tree as lines, parents first; bounded in depth and number. */
export function linesOf(root: TreeNode): { node: TreeNode; depth: number }[] {
  const lines: { node: TreeNode; depth: number }[] = [];
  const seen = new Set<string>();
  const visit = (node: TreeNode, depth: number): void => {
    if (seen.has(node.id) || lines.length >= 2000 || depth > 100) return;
    seen.add(node.id);
    lines.push({ node, depth });
    for (const child of node.children) visit(child, depth + 1);
  };
  visit(root, 0);
  return lines;
}
