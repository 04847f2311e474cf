// SPDX-License-Identifier: Apache-2.0
// Lines with an error or a warning: a mark in the gutter, and the message as the line's title. The page lists the
// messages beside the editor as well, where a screen reader finds them.
import { type EditorState, type Extension, RangeSet, StateEffect, StateField } from '@codemirror/state';
import { Decoration, type DecorationSet, EditorView, gutterLineClass, GutterMarker } from '@codemirror/view';
import type { EditorProblem } from './editor';

const MAX_PROBLEMS = 200;
export const showProblems = StateEffect.define<EditorProblem[]>();

class Mark extends GutterMarker {
  constructor(override readonly elementClass: string) {
    super();
  }
}

const MARKS = { error: new Mark('cm-at-error'), warning: new Mark('cm-at-warning') };

interface Marked {
  lines: DecorationSet;
  gutter: RangeSet<GutterMarker>;
}

function markedLines(state: EditorState, all: EditorProblem[]): Marked {
  const problems = all.slice(0, MAX_PROBLEMS);
  const at = (problem: EditorProblem): number => state.doc.line(Math.min(Math.max(problem.line ?? 1, 1), state.doc.lines)).from;
  const line = (problem: EditorProblem): Decoration =>
    Decoration.line({ class: `cm-line-${problem.severity}`, attributes: { title: problem.message.slice(0, 1000) } });
  return {
    lines: Decoration.set(problems.map((each) => line(each).range(at(each))), true),
    gutter: RangeSet.of(problems.map((each) => MARKS[each.severity].range(at(each))), true),
  };
}

const field = StateField.define<Marked>({
  create: () => ({ lines: Decoration.none, gutter: RangeSet.empty }),
  update(marked, transaction) {
    let now: Marked = { lines: marked.lines.map(transaction.changes), gutter: marked.gutter.map(transaction.changes) };
    for (const effect of transaction.effects) {
      if (effect.is(showProblems)) now = markedLines(transaction.state, effect.value);
    }
    return now;
  },
  provide: (self) => [
    EditorView.decorations.from(self, (marked) => marked.lines),
    gutterLineClass.from(self, (marked) => marked.gutter),
  ],
});

export const problemMarks: Extension = field;
