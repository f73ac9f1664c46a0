-- The employees sample database: https://dev.mysql.com/doc/employee/en/sakila-structure.html
CREATE TABLE employees (
  emp_no INT NOT NULL, birth_date DATE NOT NULL, first_name VARCHAR(14) NOT NULL, last_name VARCHAR(16) NOT NULL,
  gender ENUM('M','F') NOT NULL, hire_date DATE NOT NULL, PRIMARY KEY (emp_no)
);
CREATE TABLE departments (dept_no CHAR(4) NOT NULL, dept_name VARCHAR(40) NOT NULL, PRIMARY KEY (dept_no), UNIQUE KEY (dept_name));
CREATE TABLE dept_emp (
  emp_no INT NOT NULL, dept_no CHAR(4) NOT NULL, from_date DATE NOT NULL, to_date DATE NOT NULL, PRIMARY KEY (emp_no, dept_no),
  FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE, FOREIGN KEY (dept_no) REFERENCES departments (dept_no) ON DELETE CASCADE
);
CREATE TABLE titles (
  emp_no INT NOT NULL, title VARCHAR(50) NOT NULL, from_date DATE NOT NULL, to_date DATE, PRIMARY KEY (emp_no, title, from_date),
  FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE
);
CREATE TABLE salaries (
  emp_no INT NOT NULL, salary INT NOT NULL, from_date DATE NOT NULL, to_date DATE NOT NULL, PRIMARY KEY (emp_no, from_date),
  FOREIGN KEY (emp_no) REFERENCES employees (emp_no) ON DELETE CASCADE
);
INSERT INTO employees VALUES (10001, '1953-09-02', 'Georgi', 'Facello', 'M', '1986-06-26'), (10002, '1964-06-02', 'Bezalel', 'Simmel', 'F', '1985-11-21');
INSERT INTO departments VALUES ('d005', 'Development'), ('d007', 'Sales');
INSERT INTO dept_emp VALUES (10001, 'd005', '1986-06-26', '9999-01-01'), (10002, 'd007', '1996-08-03', '9999-01-01');
INSERT INTO titles VALUES (10001, 'Senior Engineer', '1986-06-26', '9999-01-01'), (10002, 'Staff', '1996-08-03', '9999-01-01');
INSERT INTO salaries VALUES (10001, 60117, '1986-06-26', '1987-06-26'), (10001, 62102, '1987-06-26', '1988-06-25'), (10002, 65828, '1996-08-03', '1997-08-03');
