//! Runs the example `producer_consumer`, and checks that it delivers every event once even if replies are lost and
//! batches refused.

#[path = "../../examples/producer_consumer.rs"]
mod producer_consumer;

use crate::common::{self, FakeCluster, Fate, definition};
use firstseen_client::Reason;
use firstseen_routing::ClockSource;
use producer_consumer::{Summary, run};

#[tokio::test]
async fn every_event_arrives_once() {
    for clock in [ClockSource::Wall, ClockSource::Event] {
        let cluster = FakeCluster::start(2).await;
        cluster.add_filter("clicks", definition("1h", "horizontal:4"), clock);
        cluster.judge(|_, before| match before % 50 {
            7 => Fate::LoseReply,
            21 => Fate::Refuse(Reason::Overloaded),
            33 => Fate::Refuse(Reason::NotReady),
            _ => Fate::Answer,
        });
        let client = common::connect(&cluster).await;
        let filter = client.filter("clicks").await.expect("a filter");
        let summary = run(&filter, 150, 3).await.expect("all submitted");
        let expected = Summary { delivered: 150, dropped: 300, delivered_undecided: 0, arrived_again: 0 };
        assert_eq!(summary, expected, "{clock:?}");
    }
}
