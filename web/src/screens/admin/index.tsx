// SPDX-License-Identifier: Apache-2.0
// The screens of administration, one chunk.
import '../governance.css';

export { Images } from './images';
export { Keys } from './keys';
export { Layers } from './layers';
export { Nodes } from './nodes';
export { Quotas } from './quotas';
export { Secrets } from './secrets';
export { Servers } from './servers';
