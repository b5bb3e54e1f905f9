//! Tests of rejected configurations, and of the error messages that say what to write instead.

use super::*;

fn config() -> NodeConfig {
    NodeConfig::new("a", SocketAddr::from(([127, 0, 0, 1], 7400)), "data")
}

fn refusal(config: NodeConfig) -> String {
    config.check().expect_err("it must be refused").to_string()
}

#[test]
fn refusals_name_the_field_and_the_remedy() {
    let open = SocketAddr::from(([10, 0, 0, 1], 7400));
    assert!(refusal(NodeConfig { name: "a.b".to_owned(), ..config() }).starts_with("name `a.b`"));
    assert!(refusal(NodeConfig { listen: open, ..config() }).contains("`insecure = true`"));
    assert!(refusal(NodeConfig { http_listen: Some(open), ..config() }).starts_with("http_listen 10.0.0.1:7400"));
    assert!(refusal(NodeConfig { memory_max_bytes: 1, ..config() }).starts_with("memory_max_bytes = 1"));
    let limits = Limits { batch_events_max: 0, ..Limits::default() };
    assert!(refusal(NodeConfig { limits, ..config() }).starts_with("limits.batch_events_max = 0: give 1 to"));
    let anywhere = SocketAddr::from(([0, 0, 0, 0], 7400));
    let advertised = NodeConfig { listen: anywhere, insecure: true, ..config() };
    assert!(refusal(advertised.clone()).contains("`advertise = \"host:port\"`"));
    assert_eq!(NodeConfig { advertise: Some("a.example:7400".to_owned()), ..advertised.clone() }.check(), Ok(()));
    for wrong in ["a.example", ":7400", "a:0", "0.0.0.0:7400", "[::]:7400", "a:70000"] {
        let config = NodeConfig { advertise: Some(wrong.to_owned()), ..advertised.clone() };
        assert!(refusal(config).starts_with("advertise: nobody"), "{wrong}");
    }
}

#[test]
fn certificates_open_the_listener_but_not_the_metrics() {
    let open = SocketAddr::from(([10, 0, 0, 1], 7400));
    let tls = Some(TlsSettings { ca: "ca".into(), cert: "cert".into(), key: "key".into(), crl: None, tokens: false });
    assert_eq!(NodeConfig { listen: open, tls: tls.clone(), ..config() }.check(), Ok(()));
    let metrics = NodeConfig { http_listen: Some(open), tls, ..config() };
    assert!(refusal(metrics.clone()).contains("`open = true` in `[http]`"));
    let http = HttpSettings { open: true, ..HttpSettings::default() };
    assert_eq!(NodeConfig { http: http.clone(), ..metrics }.check(), Ok(()));
    let anyone = NodeConfig { listen: open, http, ..config() };
    assert!(refusal(anyone).starts_with("listen 10.0.0.1:7400"), "open metrics open nothing else");
}

#[test]
fn a_console_is_for_this_machine_unless_the_network_is_trusted() {
    let http = HttpSettings { open: true, console: true, ..HttpSettings::default() };
    let nowhere = NodeConfig { http, ..config() };
    assert!(refusal(nowhere.clone()).contains("give `http_listen"));
    let here = NodeConfig { http_listen: Some("127.0.0.1:7401".parse().unwrap()), ..nowhere.clone() };
    assert_eq!(here.check(), Ok(()));
    let open = NodeConfig { http_listen: Some("10.0.0.1:7401".parse().unwrap()), ..nowhere };
    let refused = refusal(open.clone());
    assert!(refused.contains("10.0.0.1:7401 is open") && refused.contains("`insecure = true`"), "{refused}");
    assert_eq!(NodeConfig { insecure: true, ..open }.check(), Ok(()));
}
