//! Generates a file that contains damaged records between intact ones.

use super::shape::Shape;
use crate::run::Random;

/// Kinds of damage that occur in real inputs.
#[derive(Clone, Copy)]
enum Damage {
    FlippedBit,
    CutLine,
    LostLineEnd,
    WithoutKey,
    BlankLine,
    Text,
    FarFuture,
    LongAgo,
    StrayQuote,
    NoUtf8,
    CarriageReturn,
}

impl Damage {
    const ALL: [Self; 11] = [
        Self::FlippedBit,
        Self::CutLine,
        Self::LostLineEnd,
        Self::WithoutKey,
        Self::BlankLine,
        Self::Text,
        Self::FarFuture,
        Self::LongAgo,
        Self::StrayQuote,
        Self::NoUtf8,
        Self::CarriageReturn,
    ];
}

/// Returns a file in this form. `serial` numbers the records over all files. The first records are not damaged.
pub(super) fn damaged(shape: Shape, serial: &mut u64, random: &mut Random) -> Vec<u8> {
    let records = 20 + random.below(250);
    let keys = 1 + random.below(60);
    // Depending on the file, no times, some times or all times are out of order.
    let disorder_s = [0, 200, 20_000][random.below(3) as usize];
    let damage_percent = [0, 5, 30][random.below(3) as usize];
    let mut time_s = 30_000 + random.below(100);
    let mut file: Vec<u8> = shape.header().into();
    for record in 0..records {
        *serial += 1;
        time_s += random.below(120);
        let own_s = time_s.saturating_sub(random.below(disorder_s + 1));
        let is_damaged = record > 2 && random.below(100) < damage_percent;
        if is_damaged {
            let damage = Damage::ALL[random.below(Damage::ALL.len() as u64) as usize];
            file.extend(damaged_record(shape, damage, random.below(keys), own_s, *serial, random));
        } else {
            file.extend(shape.record(random.below(keys), own_s, *serial).into_bytes());
        }
    }
    // The last line of a file may lack its line end.
    if random.below(4) == 0 && file.last() == Some(&b'\n') {
        file.pop();
    }
    file
}

fn damaged_record(shape: Shape, damage: Damage, key: u64, time_s: u64, serial: u64, random: &mut Random) -> Vec<u8> {
    let mut record = shape.record(key, time_s, serial).into_bytes();
    let place = random.below(record.len() as u64) as usize;
    match damage {
        Damage::FlippedBit => record[place] ^= 1 << random.below(8),
        Damage::CutLine => {
            record.truncate(place);
            record.push(b'\n');
        }
        Damage::LostLineEnd => _ = record.pop(),
        Damage::WithoutKey => record = without_key(shape, time_s, serial).into_bytes(),
        Damage::BlankLine => record = [&b"\n"[..], b"\r\n"][random.below(2) as usize].to_vec(),
        Damage::Text => record = format!("{serial}: connection reset by peer\n").into_bytes(),
        Damage::FarFuture => record = shape.record(key, time_s + 500_000, serial).into_bytes(),
        Damage::LongAgo => record = shape.record(key, time_s.saturating_sub(29_000), serial).into_bytes(),
        Damage::StrayQuote => record.insert(place, b'"'),
        Damage::NoUtf8 => record.insert(place, 0xff),
        Damage::CarriageReturn => record.insert(record.len() - 1, b'\r'),
    }
    record
}

fn without_key(shape: Shape, time_s: u64, serial: u64) -> String {
    match shape {
        Shape::Lines => format!("{serial}\n"),
        Shape::Csv | Shape::CsvWithoutHeader | Shape::Tsv => format!("{}\n", 1_728_500_000 + time_s),
        Shape::Json => format!("{{\"t\":{},\"n\":{serial}}}\n", 1_728_500_000 + time_s),
        Shape::Log => format!("- - - [] \"\" - {serial}\n"),
        Shape::Index => format!(" {serial} {{}}\n"),
    }
}
