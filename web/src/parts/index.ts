// SPDX-License-Identifier: Apache-2.0
export * from './basics';
export * from './dialog';
export * from './diff';
export * from './forms';
export * from './graph';
export * from './page';
export * from './rich';
export * from './table';
export * from './toast';
