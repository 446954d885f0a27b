//! What is answered without the server, through the C interface, while the lock is held. The server's URL
//! is in PORTALOCK_BENCH_URL.
use std::ffi::CString;
use std::hint::black_box;
use std::ptr::{null, null_mut};

use criterion::{Criterion, criterion_group, criterion_main};
use portalock::ffi::{
    PL_OK, pl_client_new, pl_lock_acquire, pl_lock_is_held, pl_lock_new, pl_lock_verified_age,
};

fn held(c: &mut Criterion) {
    let url = CString::new(std::env::var("PORTALOCK_BENCH_URL").unwrap()).unwrap();
    let (mut client, mut lock) = (null_mut(), null_mut());
    let none = null_mut();
    assert_eq!(pl_client_new(url.as_ptr(), null(), &mut client, none), PL_OK);
    assert_eq!(pl_lock_new(client, c"in-process".as_ptr(), null(), &mut lock, none), PL_OK);
    assert_eq!(pl_lock_acquire(lock, -1, none), PL_OK);
    c.bench_function("pl_lock_is_held", |b| b.iter(|| pl_lock_is_held(black_box(lock))));
    c.bench_function("pl_lock_verified_age", |b| b.iter(|| pl_lock_verified_age(black_box(lock))));
    assert!(pl_lock_is_held(lock));
}

criterion_group!(benches, held);
criterion_main!(benches);
