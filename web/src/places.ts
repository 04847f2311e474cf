// SPDX-License-Identifier: Apache-2.0
// Addresses of things whose id alone does not name them.

/** The page of an approval. Numbers of approvals are counted for each tenant, so an administrator's link names the tenant. */
export function approvalPath(id: string, tenant: string | null | undefined, more: Record<string, string | undefined> = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...more, tenant: tenant ?? undefined })) if (value) query.set(name, value);
  const text = query.toString();
  return `approvals/${encodeURIComponent(id)}${text ? `?${text}` : ''}`;
}
