//! What a member says of itself for people who ask who holds a lock.

use std::sync::Arc;

use once_cell::sync::Lazy;

use crate::keeper::unix_ms;
use crate::options::LockOptions;
use crate::protocol::wire::Disclosure;

static HOST: Lazy<Option<Arc<str>>> = Lazy::new(host_name);

/// What the options allow to be said.
pub(crate) fn of(options: &LockOptions) -> Disclosure {
    if !options.disclose {
        return Disclosure::default();
    }
    Disclosure {
        host: HOST.clone(),
        pid: Some(std::process::id().into()),
        label: options.label.clone(),
        since_ms: Some(unix_ms()),
    }
}

fn host_name() -> Option<Arc<str>> {
    let mut buffer = [0u8; 256];
    // SAFETY: the buffer is as long as said.
    let status = unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len()) };
    let name = std::ffi::CStr::from_bytes_until_nul(&buffer).ok()?;
    (status == 0).then(|| Arc::from(name.to_string_lossy()))
}
