// SPDX-License-Identifier: Apache-2.0
// The audit log: sentences, filters, an export, and proofs.
import '../governance.css';
import { may, Page, Tabs } from '../kit';
import type { ScreenProps } from '../registry';
import { Timeline } from './timeline';
import { Verify } from './verify';

export function AuditPage({ query }: ScreenProps) {
  if (!may('audit.read')) {
    return <Page title="Audit"><p>Your role does not read the audit log. An approver or an administrator does.</p></Page>;
  }
  return (
    <Page title="Audit" subtitle={may('audit.verify') ? 'Every decision and every change, of all tenants' : 'Every decision and every change of your tenant'}>
      <Tabs label="Audit" tabs={[
        { id: 'timeline', label: 'Timeline', content: () => <Timeline query={query} /> },
        { id: 'verify', label: 'Verify', content: () => <Verify /> },
      ]} />
    </Page>
  );
}
