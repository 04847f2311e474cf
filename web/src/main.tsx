// SPDX-License-Identifier: Apache-2.0
import { render } from 'preact';
import { attendance } from './attendance';
import { App } from './shell/app';
import './styles.css';

attendance.watch(window);

const root = document.getElementById('app');
if (root) {
  root.replaceChildren();  // the text for a browser that refuses this program
  render(<App />, root);
}
