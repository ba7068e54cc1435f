-- sqlite3 in memory: rows of text and numbers, two indexes, joins, groups, updates, deletes.
-- The last statement refuses a result that is not the one it always is; sqlite3 -bail then ends with 1.
PRAGMA temp_store = memory;
CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE sale(id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER, note TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
  INSERT INTO customer SELECT i, printf('customer %d %.*c', i, i % 30, 'x'), 'city ' || (i % 500) FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 250000)
  INSERT INTO sale SELECT i, (i * 7919) % 40000 + 1, (i * 31) % 1000, printf('note %d %.*c', i, i % 60, 'y') FROM n;
CREATE INDEX sale_customer ON sale(customer);
CREATE INDEX customer_city ON customer(city);
UPDATE sale SET note = note || ' paid' WHERE amount % 7 = 0;
DELETE FROM sale WHERE amount % 11 = 0;
CREATE TABLE total AS
  SELECT city, count(*) AS sales, sum(amount) AS amount, max(length(note)) AS longest
  FROM customer JOIN sale ON sale.customer = customer.id GROUP BY city;
CREATE TABLE best AS
  SELECT name, sum(amount) AS amount, group_concat(substr(note, 1, 12), ',') AS notes
  FROM sale JOIN customer ON customer.id = sale.customer GROUP BY customer.id ORDER BY 2 DESC, 1 LIMIT 9000;
CREATE TABLE verdict(is_right CHECK (is_right));
INSERT INTO verdict
  SELECT sum(sales) = 227250 AND sum(amount) = 113613750 AND max(longest) = 76
         AND (SELECT sum(length(notes)) FROM best) = 732030
  FROM total;
