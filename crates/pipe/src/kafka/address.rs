//! Addresses such as `kafka://b1,b2:9093/clicks`.

use std::fmt;
use std::str::FromStr;

/// Port of a broker for which the address names none.
const DEFAULT_PORT: &str = "9092";

/// Brokers of a cluster, and topics in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Brokers as librdkafka wants them, separated by commas.
    pub(crate) brokers: String,
    /// Names of the topics.
    pub(crate) topics: Vec<String>,
}

impl Address {
    /// Returns the names of the topics.
    pub fn topics(&self) -> &[String] {
        &self.topics
    }

    /// Returns the brokers, separated by commas.
    pub fn brokers(&self) -> &str {
        &self.brokers
    }

    /// Returns the only topic.
    ///
    /// # Errors
    /// Returns a text for the user if there are several topics.
    pub fn topic(&self) -> Result<&str, String> {
        match self.topics.as_slice() {
            [topic] => Ok(topic),
            _ => Err(format!("`{self}` names several topics; name one")),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write kafka://BROKER[:PORT][,BROKER...]/TOPIC";
        let rest = text.strip_prefix("kafka://").ok_or_else(|| match text.split_once("://") {
            Some((scheme, _)) => format!("`{scheme}` is no log that this build knows; {form}"),
            None => form.to_owned(),
        })?;
        let (brokers, topics) = rest.split_once('/').ok_or(form)?;
        if brokers.contains('@') {
            return Err("write user names and passwords into the file of --kafka-config".to_owned());
        }
        let topics: Vec<String> = topics.split(',').map(str::to_owned).collect();
        if brokers.split(',').any(str::is_empty) || !topics.iter().all(|topic| is_name(topic)) {
            return Err(form.to_owned());
        }
        let brokers: Vec<String> = brokers.split(',').map(with_port).collect();
        Ok(Self { brokers: brokers.join(","), topics })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kafka://{}/{}", self.brokers, self.topics.join(","))
    }
}

/// Returns whether Kafka allows this name for a topic.
fn is_name(topic: &str) -> bool {
    let is_legal = topic.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
    is_legal && !topic.is_empty() && topic.len() <= 249 && topic != "." && topic != ".."
}

fn with_port(broker: &str) -> String {
    let after_address = broker.rsplit_once(']').map_or(broker, |(_, rest)| rest);
    if after_address.contains(':') { broker.to_owned() } else { format!("{broker}:{DEFAULT_PORT}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let address: Address = "kafka://b1,b2:9093,[::1]/clicks,views".parse().unwrap();
        assert_eq!(address.brokers(), "b1:9092,b2:9093,[::1]:9092");
        assert_eq!(address.topics(), ["clicks", "views"]);
        assert!(address.topic().is_err());
        for text in
            ["clicks", "nats://h/s", "kafka://b1", "kafka:///t", "kafka://b/", "kafka://b/a b", "kafka://u:p@b/t"]
        {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
