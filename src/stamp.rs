//! When an acquire has begun, as finely as an id can say it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::{NoContext, Timestamp, Uuid};

use crate::protocol::HolderId;

/// Bits for the part of a millisecond: those that RFC 9562, section 6.2, method 3 has for it.
const FRACTION: u32 = 12;

static LATEST: AtomicU64 = AtomicU64::new(0);

/// A point in time in units of a 4096th of a millisecond since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u64);

impl Stamp {
    /// Now, and later than all that this process has drawn before, also if the clock was set back.
    pub(crate) fn draw() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Self::of(since).0;
        let next = |latest| now.max(latest + 1);
        let stamp = |latest| Some(next(latest));
        let latest = LATEST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, stamp);
        Self(latest.map_or(now, next))
    }

    fn of(since: Duration) -> Self {
        let part = (u64::from(since.subsec_nanos() % 1_000_000) << FRACTION) / 1_000_000;
        let whole = u64::try_from(since.as_millis()).unwrap_or(u64::MAX) << FRACTION;
        Self(whole | part)
    }

    /// A new UUIDv7 of that time: two are never the same.
    pub(crate) fn id(self) -> HolderId {
        let (millis, part) = (self.0 >> FRACTION, self.0 & ((1 << FRACTION) - 1));
        let nanos = u32::try_from(millis % 1000).unwrap_or(0) * 1_000_000;
        let random = Uuid::new_v7(Timestamp::from_unix(NoContext, millis / 1000, nanos)).as_u128();
        let place = 64;
        let rest = random & !(((1 << FRACTION) - 1) << place);
        HolderId(rest | u128::from(part) << place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_in_the_order_in_which_they_were_drawn() {
        let ids: Vec<_> = (0..20_000).map(|_| Stamp::draw().id()).collect();
        assert!(ids.is_sorted());
        let (one, other) = (Stamp::draw(), Stamp::draw());
        assert!(one < other && one.id() < other.id() && one.id() < other.id());
    }

    #[test]
    fn an_id_is_a_uuid_of_its_time() {
        let since = Duration::new(1_700_000_000, 123_456_789);
        let stamp = Stamp::of(since);
        let uuid = Uuid::from_u128(stamp.id().0);
        assert_eq!(uuid.get_version_num(), 7);
        assert_eq!(uuid.get_variant(), uuid::Variant::RFC4122);
        assert_eq!(uuid.get_timestamp().unwrap().to_unix(), (1_700_000_000, 123_000_000));
        assert_ne!(stamp.id(), stamp.id());
        let later = Stamp::of(since + Duration::from_nanos(300));
        assert!(stamp < later && stamp.id() < later.id());
        assert!(Stamp::of(Duration::from_nanos(999_999)) < Stamp::of(Duration::from_millis(1)));
    }
}
